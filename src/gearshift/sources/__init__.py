"""Sources, which write records to topics: simulators, files, HTTP and change data capture."""

from gearshift.sources.files.source import Files
from gearshift.sources.http.source import Http
from gearshift.sources.simulator.source import Simulator

__all__ = ["Files", "Http", "Simulator"]
