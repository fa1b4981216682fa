"""A simulator of the gearbox: days of traffic in seconds, without Spark and Kafka."""
