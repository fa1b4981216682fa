"""Child processes of the stack: started, supervised, restarted and found by other processes."""
