"""Following a job: watched until it ends, shown as it goes, told how it has ended, with the rows it has returned.

Views come in and texts go out; nothing here knows which command it is for.
"""
