from aiokafka.consumer.consumer import AIOKafkaConsumer as AIOKafkaConsumer
from aiokafka.producer.producer import AIOKafkaProducer as AIOKafkaProducer
from aiokafka.structs import ConsumerRecord as ConsumerRecord
from aiokafka.structs import OffsetAndMetadata as OffsetAndMetadata
from aiokafka.structs import OffsetAndTimestamp as OffsetAndTimestamp
from aiokafka.structs import TopicPartition as TopicPartition
