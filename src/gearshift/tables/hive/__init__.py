"""Tables for Hive: which committed files a metastore's readers see, and how they are changed at one instant."""

from gearshift.tables.hive.metastore import HiveTable, Metastore
from gearshift.tables.hive.publishing import Published, publish, require_linkable

__all__ = ["HiveTable", "Metastore", "Published", "publish", "require_linkable"]
