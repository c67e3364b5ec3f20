import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Obol's core job on Kafka Streams. A heartbeat updates its replica's row in an in-memory store with a changelog. A clock
 * record bills the rows of its partition up to its minute: it sends a usage event for each row and moves the row, in one
 * commit. There are no other rules.
 *
 * <p>It is configured by the variables KAFKA_BOOTSTRAP_SERVERS, PEER_APP_ID, PEER_HEARTBEATS, PEER_CLOCK, PEER_USAGE and
 * PEER_STATE_DIR, and runs until SIGTERM.
 */
public final class Billing {
    private static final String ROWS = "rows";
    private static final long MINUTE_MS = 60_000;

    record Heartbeat(String org_id, String replica_id) {}

    record Row(String org_id, String replica_id, long opened_at, long last_health_check, long billed_until) {}

    record Usage(
            String id,
            String type,
            String org_id,
            String deployment_id,
            String replica_id,
            String window_id,
            String profile,
            int quantity,
            String interval_start,
            String interval_end,
            long duration_ms) {}

    private static final ObjectMapper MAPPER =
            new ObjectMapper().disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
    private static final ObjectReader HEARTBEAT = MAPPER.readerFor(Heartbeat.class);
    private static final ObjectReader ROW = MAPPER.readerFor(Row.class);
    private static final ObjectWriter ROW_WRITER = MAPPER.writerFor(Row.class);
    private static final ObjectWriter USAGE_WRITER = MAPPER.writerFor(Usage.class);
    private static final DateTimeFormatter RFC_3339 =
            new DateTimeFormatterBuilder().appendInstant(3).toFormatter();

    private Billing() {}

    /** Keeps one row for each replica. */
    static final class OnHeartbeat implements Processor<byte[], byte[], String, byte[]> {
        private KeyValueStore<String, Row> rows;

        @Override
        public void init(ProcessorContext<String, byte[]> context) {
            rows = context.getStateStore(ROWS);
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            Heartbeat heartbeat = read(HEARTBEAT, record.value());
            long now = record.timestamp();
            Row row = rows.get(heartbeat.replica_id());
            rows.put(
                    heartbeat.replica_id(),
                    row == null
                            ? new Row(heartbeat.org_id(), heartbeat.replica_id(), now, now, now)
                            : new Row(
                                    row.org_id(),
                                    row.replica_id(),
                                    row.opened_at(),
                                    Math.max(row.last_health_check(), now),
                                    row.billed_until()));
        }
    }

    /** Bills every row of the partition. */
    static final class OnTick implements Processor<byte[], byte[], String, byte[]> {
        private ProcessorContext<String, byte[]> context;
        private KeyValueStore<String, Row> rows;

        @Override
        public void init(ProcessorContext<String, byte[]> context) {
            this.context = context;
            rows = context.getStateStore(ROWS);
        }

        @Override
        public void process(Record<byte[], byte[]> tick) {
            long until = tick.timestamp() / MINUTE_MS * MINUTE_MS;
            String untilText = text(until);
            try (KeyValueIterator<String, Row> all = rows.all()) {
                while (all.hasNext()) {
                    KeyValue<String, Row> entry = all.next();
                    if (entry.value.billed_until() < until) {
                        bill(entry.key, entry.value, until, untilText);
                    }
                }
            }
            context.commit();
        }

        private void bill(String key, Row row, long until, String untilText) {
            String start = text(row.billed_until());
            Usage usage = new Usage(
                    row.replica_id() + ":" + start,
                    "dedicated_inference_running",
                    row.org_id(),
                    row.replica_id().substring(0, row.replica_id().lastIndexOf("-r")),
                    row.replica_id(),
                    row.replica_id() + ".w1",
                    "dedicated.h100.1x",
                    1,
                    start,
                    untilText,
                    until - row.billed_until());
            context.forward(new Record<>(row.org_id(), write(USAGE_WRITER, usage), until));
            rows.put(
                    key, new Row(row.org_id(), row.replica_id(), row.opened_at(), row.last_health_check(), until));
        }
    }

    private static String text(long ms) {
        return RFC_3339.format(Instant.ofEpochMilli(ms));
    }

    private static <T> T read(ObjectReader reader, byte[] bytes) {
        try {
            return reader.readValue(bytes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static byte[] write(ObjectWriter writer, Object value) {
        try {
            return writer.writeValueAsBytes(value);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String variable(String name) {
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is not set");
        }
        return value;
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, variable("PEER_APP_ID"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, variable("KAFKA_BOOTSTRAP_SERVERS"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, variable("PEER_STATE_DIR"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100); // as Obol
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.consumerPrefix("max.poll.records"), 5_000);
        settings.put(StreamsConfig.producerPrefix("batch.size"), 256 << 10);
        settings.put(StreamsConfig.producerPrefix("buffer.memory"), 128L << 20);
        return settings;
    }

    private static Topology topology() {
        Serde<Row> rowSerde = Serdes.serdeFrom(
                (topic, row) -> row == null ? null : write(ROW_WRITER, row),
                (topic, bytes) -> bytes == null ? null : read(ROW, bytes));
        return new Topology()
                .addSource(
                        "heartbeats", new ByteArrayDeserializer(), new ByteArrayDeserializer(), variable("PEER_HEARTBEATS"))
                .addSource("clock", new ByteArrayDeserializer(), new ByteArrayDeserializer(), variable("PEER_CLOCK"))
                .addProcessor("on-heartbeat", OnHeartbeat::new, "heartbeats")
                .addProcessor("on-tick", OnTick::new, "clock")
                .addStateStore(
                        Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(ROWS), Serdes.String(), rowSerde)
                                .withCachingDisabled() // faster, since few rows change twice between commits
                                .withLoggingEnabled(Map.of()),
                        "on-heartbeat",
                        "on-tick")
                .addSink(
                        "usage", variable("PEER_USAGE"), Serdes.String().serializer(), new ByteArraySerializer(), "on-tick");
    }

    public static void main(String[] arguments) {
        KafkaStreams streams = new KafkaStreams(topology(), settings());
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            // Without a thread, the program would seem to run; its exit code shows that it failed.
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
    }
}
