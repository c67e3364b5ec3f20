from aiokafka.admin.client import AIOKafkaAdminClient as AIOKafkaAdminClient
from aiokafka.admin.new_topic import NewTopic as NewTopic
