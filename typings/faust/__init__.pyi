from faust.app.base import App as App
from faust.serializers.schemas import Schema as Schema
from faust.streams import Stream as Stream
from faust.tables.table import Table as Table
from faust.topics import Topic as Topic
