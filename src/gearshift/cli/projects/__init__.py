"""`gearshift init` and `gearshift demo`: projects and stories."""
