"""Consumer groups seen from outside: offsets, members, lag, back pressure."""
