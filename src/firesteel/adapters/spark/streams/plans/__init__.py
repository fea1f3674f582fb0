"""What a streaming query's plan says of its state."""
