"""Local training: batches, engines, worker processes, evaluation."""
