// SPDX-License-Identifier: Apache-2.0

import java.io.RandomAccessFile;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.util.HashMap;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer.HeaderNames.HeadersToAdd;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.retrytopic.DltStrategy;
import org.springframework.kafka.retrytopic.RetryTopicConfigurationSupport;
import org.springframework.retry.annotation.Backoff;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * The peer: fails each task of the topic `work`, and succeeds when it comes again from the retry topic
 * a second later. What it saw of each task is in the file `ledger`, as handler.c writes it, which
 * outlives a SIGKILL. Tuned: see the settings, each with its reason.
 */
@Configuration
@EnableKafka
public class Retrying extends RetryTopicConfigurationSupport {
    static final int ENTRY = 24, FAILURES = 0, AGAIN = 4, FAILED_US = 8, AGAIN_US = 16;
    static final String work = System.getProperty("work");
    static final MappedByteBuffer ledger = mapLedger();

    /** As cheap as a failure can be: without a stack trace. */
    static class Failure extends RuntimeException {
        Failure() {
            super("timed out", null, false, false);
        }
    }

    static final Failure failure = new Failure();

    static MappedByteBuffer mapLedger() {
        try (RandomAccessFile file = new RandomAccessFile(System.getProperty("ledger"), "rw")) {
            MappedByteBuffer map = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, file.length());
            map.order(ByteOrder.LITTLE_ENDIAN);
            return map;
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    static long nowUs() {
        java.time.Instant now = java.time.Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    /** Each task is in one partition, so one thread at a time writes its entry. */
    @RetryableTopic(attempts = "2", backoff = @Backoff(delay = 1000), numPartitions = "${partitions}",
        replicationFactor = "1", concurrency = "${concurrency}", retryTopicSuffix = ".retry",
        dltStrategy = DltStrategy.NO_DLT) // whose consumers would only take processor time
    @KafkaListener(groupId = "${group}", topics = "${work}", concurrency = "${concurrency}")
    public void handle(ConsumerRecord<String, byte[]> record) {
        String key = record.key();
        int at = ENTRY * Integer.parseInt(key.substring(key.lastIndexOf('-') + 1));
        if (record.topic().equals(work)) {
            int failures = ledger.getInt(at + FAILURES);
            ledger.putInt(at + FAILURES, failures + 1);
            if (failures == 0)
                ledger.putLong(at + FAILED_US, nowUs());
            throw failure;
        }
        int again = ledger.getInt(at + AGAIN);
        ledger.putInt(at + AGAIN, again + 1);
        if (again == 0)
            ledger.putLong(at + AGAIN_US, nowUs());
    }

    @Override
    protected void configureCustomizers(CustomizersConfigurer customizers) {
        customizers.customizeErrorHandler(Retrying::tune);
        // The stack trace is the largest of the headers, and nobody reads it here.
        customizers.customizeDeadLetterPublishingRecoverer(
            recoverer -> recoverer.excludeHeader(HeadersToAdd.EX_STACKTRACE));
    }

    /** Without it each failure throws away what was fetched, and waits for fetch.max.wait.ms. */
    static void tune(DefaultErrorHandler handler) {
        handler.setSeekAfterError(false);
        handler.setLogLevel(org.springframework.kafka.KafkaException.Level.TRACE);
    }

    @Bean
    public ConcurrentKafkaListenerContainerFactory<String, byte[]> kafkaListenerContainerFactory() {
        Map<String, Object> config = new HashMap<>();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getProperty("bootstrap"));
        config.put(ConsumerConfig.GROUP_ID_CONFIG, System.getProperty("group"));
        config.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        config.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        config.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 20); // a seek back to a retry that was not due waits so long
        // After a failure the container polls once for nothing, for as long as a poll may take, while records
        // of the same poll wait. With one at a time none does; they are fetched many at a time all the same.
        config.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 1);
        config.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 6000);
        config.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 2000);
        var factory = new ConcurrentKafkaListenerContainerFactory<String, byte[]>();
        factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(config));
        var container = factory.getContainerProperties();
        container.setPollTimeout(20);
        container.setAckMode(ContainerProperties.AckMode.COUNT_TIME); // else each record is committed by itself
        container.setAckCount(500);
        container.setAckTime(500);
        return factory;
    }

    @Bean
    public KafkaTemplate<String, byte[]> defaultRetryTopicKafkaTemplate() {
        Map<String, Object> config = new HashMap<>();
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getProperty("bootstrap"));
        config.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
        config.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        config.put(ProducerConfig.ACKS_CONFIG, "all");
        config.put(ProducerConfig.LINGER_MS_CONFIG, 0); // each failure waits for its record's acknowledgement
        return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(config));
    }

    @Bean
    public KafkaAdmin kafkaAdmin() {
        return new KafkaAdmin(Map.of("bootstrap.servers", System.getProperty("bootstrap")));
    }

    @Bean
    public TaskScheduler taskScheduler() {
        var scheduler = new ThreadPoolTaskScheduler();
        scheduler.setPoolSize(2);
        return scheduler;
    }

    public static void main(String[] arguments) throws InterruptedException {
        new AnnotationConfigApplicationContext(Retrying.class);
        Thread.currentThread().join();
    }
}
