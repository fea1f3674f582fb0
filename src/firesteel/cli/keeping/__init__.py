"""`firesteel run --keep-warm`: a cluster that stays behind for a while, for the next command in the same directory.

What fits whom is decided in `identity` and `tenancy`, which know neither clock nor disk.
"""
