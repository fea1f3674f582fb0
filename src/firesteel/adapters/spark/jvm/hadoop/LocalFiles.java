package firesteel;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Hadoop's local file system, but for three things. Without Hadoop's native library it starts a process, chmod, for each
 * file and each directory that it makes: this makes a system call. It writes no checksum file beside each file. And
 * relative paths start where the session of the calling thread says, not where the JVM was started.
 */
public class LocalFiles extends LocalFileSystem {
    /** The setting of a session that says where its relative paths start: an absolute path. */
    private static final String DIRECTORY = "spark.firesteel.client-directory";

    public LocalFiles() {
        super(new Raw());
        setWriteChecksum(false);
    }

    /** What is beneath the checksums. */
    public static class Raw extends RawLocalFileSystem {
        /** The nine permissions, from the lowest bit of a mode to the highest. */
        private static final PosixFilePermission[] BITS = {
            PosixFilePermission.OTHERS_EXECUTE, PosixFilePermission.OTHERS_WRITE, PosixFilePermission.OTHERS_READ,
            PosixFilePermission.GROUP_EXECUTE, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_READ,
            PosixFilePermission.OWNER_EXECUTE, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_READ,
        };

        /** Whether the thread is asking for its session's directory: a session that is being made asks for ours meanwhile. */
        private static final ThreadLocal<Boolean> ASKING = ThreadLocal.withInitial(() -> false);

        /** Where relative paths start for the thread's query or task: one instance is there for all sessions. */
        @Override
        public Path getWorkingDirectory() {
            String directory = directory();
            return directory == null ? super.getWorkingDirectory() : new Path(getUri().getScheme(), null, directory);
        }

        /** The same for Hadoop's other interface, which has one instance a use. */
        @Override
        protected Path getInitialWorkingDirectory() {
            String directory = directory();
            return directory == null ? super.getInitialWorkingDirectory() : new Path(getUri().getScheme(), null, directory);
        }

        private static String directory() {
            TaskContext task = TaskContext.get();
            if (task != null) {
                return task.getLocalProperty(DIRECTORY);
            }
            if (ASKING.get()) {
                return null;
            }
            ASKING.set(true);
            try {
                return SQLConf.get().getConfString(DIRECTORY, null);
            } finally {
                ASKING.set(false);
            }
        }

        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            int mode = permission.toShort();
            if (mode >>> BITS.length != 0) { // set-id and sticky bits: Java has no names for them
                super.setPermission(path, permission);
                return;
            }
            Set<PosixFilePermission> wanted = EnumSet.noneOf(PosixFilePermission.class);
            for (int bit = 0; bit < BITS.length; bit++) {
                if ((mode >>> bit & 1) != 0) {
                    wanted.add(BITS[bit]);
                }
            }
            Files.setPosixFilePermissions(pathToFile(path).toPath(), wanted);
        }
    }

    /** The same files by Hadoop's other interface, by which streams write their checkpoints: with checksums, as they were. */
    public static class Context extends ChecksumFs {
        public Context(URI uri, Configuration settings) throws IOException, URISyntaxException {
            super(new Plain(uri, settings));
        }

        private static class Plain extends DelegateToFileSystem {
            Plain(URI uri, Configuration settings) throws IOException, URISyntaxException {
                super(uri, new Raw(), settings, uri.getScheme(), false);
            }

            @Override
            public int getUriDefaultPort() {
                return -1;
            }

            @Override
            public boolean isValidName(String name) {
                return true; // the machine's own file system says what is none
            }
        }
    }
}
