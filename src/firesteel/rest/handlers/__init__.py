"""What the routes answer, by resource. A handler turns a Call into a body."""
