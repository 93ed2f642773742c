"""What each verification rule emits, and how much it accepts: exact, on a fixed family of instances."""
