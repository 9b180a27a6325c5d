"""Recordings of devices that users bring: when they were there, and how fast they are."""
