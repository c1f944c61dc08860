"""What sending a message can leave open: whether one stands whose reply was lost, and how one is said that was too long."""
