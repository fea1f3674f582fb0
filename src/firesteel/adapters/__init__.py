"""The world outside: what the runtime's ports are made of."""
