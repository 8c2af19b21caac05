// SPDX-License-Identifier: Apache-2.0
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.message.BinaryMessageDecoder;
import org.apache.avro.message.BinaryMessageEncoder;

/**
 * Reads single-object values by Java's own Avro and writes them anew: AvroInterop SCHEMA.avsc. A line
 * of hexadecimal in, a line out: the record as JSON, a tab, and the value that Java made of it.
 */
public final class AvroInterop {
    public static void main(String[] args) throws IOException {
        Schema schema = new Schema.Parser().parse(new File(args[0]));
        GenericData model = new GenericData();
        BinaryMessageDecoder<GenericRecord> decoder = new BinaryMessageDecoder<>(model, schema);
        BinaryMessageEncoder<GenericRecord> encoder = new BinaryMessageEncoder<>(model, schema);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            GenericRecord record = decoder.decode(HexFormat.of().parseHex(line));
            ByteBuffer value = encoder.encode(record);
            byte[] bytes = new byte[value.remaining()];
            value.get(bytes);
            System.out.println(record + "\t" + HexFormat.of().formatHex(bytes));
        }
    }
}
