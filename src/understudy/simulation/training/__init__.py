"""Local training: batches, engines, threads and worker processes, evaluation."""
