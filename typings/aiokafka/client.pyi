from asyncio import Future

class AIOKafkaClient:
    def add_topic(self, topic: str) -> Future[bool]: ...
