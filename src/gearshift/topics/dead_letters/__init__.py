"""Dead letters: writing them to TOPIC.dlq, listing, replaying and discarding them."""
