package firesteel;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32C;
import net.jpountz.lz4.LZ4Compressor;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.lz4.LZ4SafeDecompressor;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.streaming.runtime.MetadataLogFileIndex;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.SchemaRelationProvider;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;
import scala.Function1;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Rows as Spark has them in memory: what is read once, and soon, needs no columns to be made of rows and rows of columns.
 *
 * A file is blocks, their places, and an end. A block is its number of rows, its length before and after LZ4, the CRC-32C of
 * that and of what follows, and this: for each row its length, four bytes of nothing, and Spark's UnsafeRow. The end is the
 * number of fields, of blocks, of rows and of their bytes, the CRC-32C of the places and these, and a mark. All numbers are
 * big-endian, but for those in rows, which are the machine's. A split of a file is read from the first block that begins in
 * it. A row is not looked at: what the checksums pass is what was written.
 *
 * With the option "subpartitions" above 1 the last field of each row says to which it belongs, and each has a file of its
 * own, in directories as Spark names them: nothing is sorted, and a row costs no lookup of where it goes. With "buckets" above 1
 * the field says to which bucket of which subpartition, and a file's name ends in its bucket, as those of Spark's do.
 *
 * What is read are the files of a list, as a streaming file sink keeps them, whose rows have "rowBytes" bytes: after that
 * Spark chooses its joins, as it does after what it has shuffled. With "buckets" above 1 they are all of these buckets, of the
 * columns "keys": Spark then knows the rows for shuffled by them.
 */
public final class StoredRows implements FileFormat, SchemaRelationProvider, DataSourceRegister, Serializable {
    private static final long MARK =
            0x4653524F57530000L + (ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN ? 3 : 4);
    private static final int END_BYTES = 36;
    private static final int HEAD_BYTES = 16;
    private static final int SUMMED_BYTES = 12;
    private static final int SUMMED_AT_END = 24;
    private static final int BLOCK_BYTES = 256 << 10;
    /** For the blocks of all files that one of Spark's tasks writes at a time, of which Spark knows nothing. */
    private static final int BLOCKS_BYTES = 4 << 20;
    private static final int ROW_HEAD_BYTES = 8;
    private static final String EXTENSION = ".rows";
    private static final String SUBPARTITIONS = "subpartitions";
    private static final String BUCKETS = "buckets";
    private static final String KEYS = "keys";
    private static final String ROW_BYTES = "rowBytes";

    /** In Spark's plans and pages. */
    @Override
    public String shortName() {
        return "storedrows";
    }

    @Override
    public Option<StructType> inferSchema(SparkSession spark, Map<String, String> options, Seq<FileStatus> files) {
        return Option.empty();
    }

    @Override
    public boolean isSplitable(SparkSession spark, Map<String, String> options, Path path) {
        return true;
    }

    @Override
    public BaseRelation createRelation(SQLContext context, Map<String, String> options, StructType schema) {
        SparkSession spark = context.sparkSession();
        FileIndex files = new StoredFiles(spark, options);
        Option<BucketSpec> layout = Option.empty();
        if (number(options, BUCKETS) > 1) {
            Seq<String> keys = list(options.apply(KEYS).split(","));
            layout = Option.apply(new BucketSpec(number(options, BUCKETS), keys, list()));
        }
        StructType none = new StructType();
        return new HadoopFsRelation(
                files, none, schema, layout, this, options, (org.apache.spark.sql.classic.SparkSession) spark);
    }

    /** What is to be read, with the bytes that its rows have in memory. */
    private static final class StoredFiles extends MetadataLogFileIndex {
        private final long rowBytes;

        StoredFiles(SparkSession spark, Map<String, String> options) {
            super(spark, new Path(options.apply("path")), options, Option.empty());
            this.rowBytes = Long.parseLong(options.apply(ROW_BYTES));
        }

        @Override
        public long sizeInBytes() {
            return rowBytes;
        }
    }

    private static Seq<String> list(String... names) {
        return CollectionConverters.asScala(List.of(names)).toSeq();
    }

    private static int number(Map<String, String> options, String name) {
        return options.contains(name) ? Integer.parseInt(options.apply(name)) : 1;
    }

    @Override
    public OutputWriterFactory prepareWrite(
            SparkSession spark, Job job, Map<String, String> options, StructType schema) {
        return new Writers(number(options, SUBPARTITIONS), number(options, BUCKETS));
    }

    @Override
    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
            SparkSession spark,
            StructType schema,
            StructType partitions,
            StructType required,
            Seq<Filter> filters,
            Map<String, String> options,
            Configuration configuration) {
        int[] places = Arrays.stream(required.fields()).mapToInt(each -> schema.fieldIndex(each.name())).toArray();
        return new Reader(schema.length(), required, places, new SerializableConfiguration(configuration));
    }

    @Override
    public String toString() {
        return "StoredRows";
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof StoredRows;
    }

    @Override
    public int hashCode() {
        return StoredRows.class.hashCode();
    }

    /** CRC-32C of the first bytes of these. */
    private static int checksum(byte[] first, int length, byte[] second, int secondLength) {
        CRC32C sum = new CRC32C();
        sum.update(first, 0, length);
        sum.update(second, 0, secondLength);
        return (int) sum.getValue();
    }

    /** Throws what Spark knows to tell of, where its interfaces don't say so. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> RuntimeException unchanged(Throwable error) throws E {
        throw (E) error;
    }

    private static final class Writers extends OutputWriterFactory {
        private final int subpartitions;
        private final int buckets;

        Writers(int subpartitions, int buckets) {
            this.subpartitions = subpartitions;
            this.buckets = buckets;
        }

        @Override
        public String getFileExtension(TaskAttemptContext context) {
            return EXTENSION;
        }

        @Override
        public OutputWriter newInstance(String path, StructType schema, TaskAttemptContext context) {
            return new Writer(new Path(path), schema, context.getConfiguration(), subpartitions, buckets);
        }
    }

    private static final class Writer extends OutputWriter {
        private final Path path;
        /** Spark asks for it with each row. */
        private final String shown;
        private final StructType schema;
        private final Configuration configuration;
        private final int buckets;
        /** By subpartition and bucket. */
        private final Blocks[] files;
        private UnsafeProjection toUnsafe;

        Writer(Path path, StructType schema, Configuration configuration, int subpartitions, int buckets) {
            this.path = path;
            this.shown = path.toString();
            this.schema = schema;
            this.configuration = configuration;
            this.buckets = buckets;
            this.files = new Blocks[Math.multiplyExact(subpartitions, buckets)];
        }

        @Override
        public String path() {
            return shown;
        }

        @Override
        public void write(InternalRow row) {
            try {
                int part = files.length == 1 ? 0 : row.getInt(schema.length() - 1);
                Blocks file = files[part];
                if (file == null) {
                    file = open(part);
                }
                file.add(row instanceof UnsafeRow unsafe ? unsafe : unsafe(row));
            } catch (IOException error) {
                throw StoredRows.<RuntimeException>unchanged(error);
            }
        }

        @Override
        public void close() {
            try {
                if (files.length == 1 && files[0] == null) {
                    open(0);
                }
                closeAll();
            } catch (IOException error) {
                throw StoredRows.<RuntimeException>unchanged(error);
            }
        }

        /** All of them, also when one can't be closed. */
        private void closeAll() throws IOException {
            IOException first = null;
            for (Blocks file : files) {
                try {
                    if (file != null) {
                        file.close();
                    }
                } catch (IOException error) {
                    first = first == null ? error : first;
                }
            }
            if (first != null) {
                throw first;
            }
        }

        private Blocks open(int part) throws IOException {
            Path place = path;
            if (files.length > 1) {
                String name = path.getName();
                if (buckets > 1) {
                    name = name.substring(0, name.length() - EXTENSION.length()) + "_" + part % buckets + EXTENSION;
                }
                place = new Path(new Path(path.getParent(), "subpartition=" + part / buckets), name);
            }
            FSDataOutputStream out = place.getFileSystem(configuration).create(place, false);
            return files[part] = new Blocks(out, schema.length(), Math.min(BLOCK_BYTES, BLOCKS_BYTES / files.length));
        }

        private UnsafeRow unsafe(InternalRow row) {
            if (toUnsafe == null) {
                toUnsafe = UnsafeProjection.create(schema);
            }
            return toUnsafe.apply(row);
        }
    }

    /** One file that is written. */
    private static final class Blocks implements Closeable {
        private final LZ4Compressor compressor = LZ4Factory.fastestInstance().fastCompressor();
        private final FSDataOutputStream out;
        private final int fields;
        private final List<Long> places = new ArrayList<>();
        private byte[] block;
        private byte[] compressed = new byte[0];
        private int length;
        private int rowsInBlock;
        private long rows;
        private long bytes;

        Blocks(FSDataOutputStream out, int fields, int blockBytes) {
            this.out = out;
            this.fields = fields;
            this.block = new byte[blockBytes];
        }

        void add(UnsafeRow row) throws IOException {
            int size = row.getSizeInBytes();
            int needed = Math.addExact(size, ROW_HEAD_BYTES);
            if (length + (long) needed > block.length) {
                flush();
                if (needed > block.length) {
                    block = new byte[needed];
                }
            }
            Platform.putLong(block, Platform.BYTE_ARRAY_OFFSET + length, size);
            row.writeToMemory(block, Platform.BYTE_ARRAY_OFFSET + length + ROW_HEAD_BYTES);
            length += needed;
            bytes += size;
            rowsInBlock++;
        }

        @Override
        public void close() throws IOException {
            try (out) {
                flush();
                ByteBuffer end = ByteBuffer.allocate(Math.addExact(Math.multiplyExact(places.size(), 8), END_BYTES));
                places.forEach(end::putLong);
                end.putInt(fields).putInt(places.size()).putLong(rows).putLong(bytes);
                end.putInt(checksum(end.array(), end.position(), end.array(), 0)).putLong(MARK);
                out.write(end.array());
            }
        }

        private void flush() throws IOException {
            if (rowsInBlock == 0) {
                return;
            }
            int most = compressor.maxCompressedLength(length);
            if (compressed.length < most) {
                compressed = new byte[most];
            }
            int size = compressor.compress(block, 0, length, compressed, 0, most);
            places.add(out.getPos());
            ByteBuffer head = ByteBuffer.allocate(HEAD_BYTES);
            head.putInt(rowsInBlock).putInt(length).putInt(size);
            head.putInt(checksum(head.array(), SUMMED_BYTES, compressed, size));
            out.write(head.array());
            out.write(compressed, 0, size);
            rows += rowsInBlock;
            length = rowsInBlock = 0;
        }
    }

    private static final class Reader extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>>
            implements Serializable {
        private final int fields;
        private final StructType required;
        private final int[] places;
        private final SerializableConfiguration configuration;

        Reader(int fields, StructType required, int[] places, SerializableConfiguration configuration) {
            this.fields = fields;
            this.required = required;
            this.places = places;
            this.configuration = configuration;
        }

        @Override
        public Iterator<InternalRow> apply(PartitionedFile file) {
            try {
                Path path = file.toPath();
                FSDataInputStream in = path.getFileSystem(configuration.value()).open(path);
                Rows rows = new Rows(in, file, fields);
                TaskContext task = TaskContext.get();
                if (task != null) {
                    task.addTaskCompletionListener((TaskCompletionListener) ended -> rows.close());
                }
                rows.begin();
                return rows.isAsExpected() && isAll() ? rows : new Projected(rows, projection());
            } catch (IOException error) {
                throw StoredRows.<RuntimeException>unchanged(error);
            }
        }

        private boolean isAll() {
            for (int n = 0; n < places.length; n++) {
                if (places[n] != n) {
                    return false;
                }
            }
            return places.length == fields;
        }

        private UnsafeProjection projection() {
            List<Expression> columns = new ArrayList<>();
            for (int n = 0; n < places.length; n++) {
                StructField field = required.fields()[n];
                columns.add(new BoundReference(places[n], field.dataType(), field.nullable()));
            }
            return UnsafeProjection.create(CollectionConverters.asScala(columns).toSeq());
        }
    }

    /** Rows of which only some fields are wanted. */
    private static final class Projected extends AbstractIterator<InternalRow> {
        private final Rows rows;
        private final UnsafeProjection projection;

        Projected(Rows rows, UnsafeProjection projection) {
            this.rows = rows;
            this.projection = projection;
        }

        @Override
        public boolean hasNext() {
            return rows.hasNext();
        }

        @Override
        public InternalRow next() {
            return projection.apply(rows.next());
        }
    }

    /** The rows of one split of a file. Each is good until the next is asked for. */
    private static final class Rows extends AbstractIterator<InternalRow> implements Closeable {
        private final LZ4SafeDecompressor decompressor = LZ4Factory.fastestInstance().safeDecompressor();
        private final FSDataInputStream in;
        private final PartitionedFile file;
        /** Fields of a row, without that of its subpartition. */
        private final int expected;
        private final byte[] head = new byte[HEAD_BYTES];
        private int fields;
        private int blocks;
        private int rowsInBlock;
        private int at;
        private int length;
        private byte[] compressed = new byte[0];
        private byte[] block = new byte[0];
        private UnsafeRow row;
        private boolean isClosed;

        Rows(FSDataInputStream in, PartitionedFile file, int expected) {
            this.in = in;
            this.file = file;
            this.expected = expected;
        }

        /** Find the blocks of the split. */
        void begin() throws IOException {
            long size = file.fileSize();
            ByteBuffer end = ByteBuffer.allocate(END_BYTES);
            check(size >= END_BYTES);
            in.readFully(size - END_BYTES, end.array());
            fields = end.getInt();
            int inFile = end.getInt();
            end.getLong();
            end.getLong();
            int sum = end.getInt();
            check(end.getLong() == MARK && inFile >= 0 && 8L * inFile <= size - END_BYTES);
            ByteBuffer places = ByteBuffer.allocate(Math.multiplyExact(8, inFile));
            in.readFully(size - END_BYTES - 8L * inFile, places.array());
            check(checksum(places.array(), places.capacity(), end.array(), SUMMED_AT_END) == sum);
            check(fields == expected || fields == expected + 1);
            long begin = -1;
            for (int n = 0; n < inFile; n++) {
                long place = places.getLong();
                if (place >= file.start() && place < file.start() + file.length()) {
                    begin = begin < 0 ? place : begin;
                    blocks++;
                }
            }
            if (blocks > 0) {
                in.seek(begin);
            }
            row = new UnsafeRow(isAsExpected() ? expected : fields);
        }

        /**
         * Whether a row can be read as one of the expected fields. One more, of its subpartition, is a gap between the values of
         * a fixed width and the others, whose places a row tells, unless the bits for null need another word for it.
         */
        boolean isAsExpected() {
            return fields == expected || expected % Long.SIZE != 0;
        }

        @Override
        public boolean hasNext() {
            if (rowsInBlock > 0) {
                return true;
            }
            if (blocks == 0) {
                close();
                return false;
            }
            try {
                readBlock();
            } catch (IOException error) {
                throw StoredRows.<RuntimeException>unchanged(error);
            }
            return true;
        }

        @Override
        public InternalRow next() {
            if (!hasNext()) {
                throw new java.util.NoSuchElementException();
            }
            int size = (int) Platform.getLong(block, Platform.BYTE_ARRAY_OFFSET + at);
            row.pointTo(block, Platform.BYTE_ARRAY_OFFSET + at + ROW_HEAD_BYTES, size);
            at += ROW_HEAD_BYTES + size;
            rowsInBlock--;
            return row;
        }

        @Override
        public void close() {
            if (!isClosed) {
                isClosed = true;
                try {
                    in.close();
                } catch (IOException ignored) {
                    // It was only read.
                }
                block = compressed = null; // a task that reads many files keeps all of these to its end
                row = null; // it has the block, too
            }
        }

        private void readBlock() throws IOException {
            in.readFully(head);
            ByteBuffer numbers = ByteBuffer.wrap(head);
            rowsInBlock = numbers.getInt();
            length = numbers.getInt();
            int size = numbers.getInt();
            int sum = numbers.getInt();
            check(size > 0 && size <= file.fileSize());
            compressed = compressed.length < size ? new byte[size] : compressed;
            in.readFully(compressed, 0, size);
            check(checksum(head, SUMMED_BYTES, compressed, size) == sum);
            block = block.length < length ? new byte[length] : block;
            check(decompressor.decompress(compressed, 0, size, block, 0, length) == length);
            at = 0;
            blocks--;
        }

        private void check(boolean holds) throws IOException {
            if (!holds) {
                throw new EOFException("the stored result " + file.filePath() + " is damaged: it is to be made again");
            }
        }
    }
}
