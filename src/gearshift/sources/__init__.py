"""What puts records on topics: simulators now; files, HTTP and change data capture join them here."""

from gearshift.sources.simulator import Simulator

__all__ = ["Simulator"]
