"""Runs the cells of a study: processes of this machine, or a Ray cluster."""
