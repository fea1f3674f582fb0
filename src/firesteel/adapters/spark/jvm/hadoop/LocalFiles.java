package firesteel;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, but for two things. Without Hadoop's native library it starts a process, chmod, for each
 * file and each directory that it makes: this makes a system call. And it writes no checksum file beside each file.
 */
public class LocalFiles extends LocalFileSystem {
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
}
