"""Destinations that send messages: SMS, e-mail and webhooks."""
