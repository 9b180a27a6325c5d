"""Handwritten digits, learnt by clients that do not always show up."""
