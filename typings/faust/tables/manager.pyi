from typing import Any

from faust.tables.table import Table

class TableManager(dict[str, Any]):
    def add(self, table: Table) -> Table: ...
