"""What each resource type does when it is created, updated and deleted."""
