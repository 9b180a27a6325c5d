"""What stands in for the updates that did not come."""
