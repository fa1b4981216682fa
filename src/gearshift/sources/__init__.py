"""What puts records on topics: simulators, files, HTTP and change data capture."""

from gearshift.sources.files import Files
from gearshift.sources.http import Http
from gearshift.sources.simulator import Simulator

__all__ = ["Files", "Http", "Simulator"]
