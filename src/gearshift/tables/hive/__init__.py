"""Publishing tables to Hive: which committed files a metastore's readers see."""

from gearshift.tables.hive.metastore import HiveTable, Metastore
from gearshift.tables.hive.publishing import Published, publish, require_linkable

__all__ = ["HiveTable", "Metastore", "Published", "publish", "require_linkable"]
