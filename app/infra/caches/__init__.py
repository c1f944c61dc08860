"""What may be kept in a process for a while, within limits."""
