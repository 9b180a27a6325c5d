"""Kriging: absent updates predicted from friends and from remembered differences."""
