import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Collections;
import java.util.TreeSet;
import java.util.jar.JarFile;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.FallbackKey;

/** Prints every option that Flink's classes declare: class, key, type, and the keys that it had before. */
public class FlinkOptions {
    public static void main(String[] arguments) throws Exception {
        TreeSet<String> lines = new TreeSet<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!new File(path).getName().startsWith("flink-")) continue;
            try (JarFile jar = new JarFile(path)) {
                for (var entry : Collections.list(jar.entries())) {
                    String name = entry.getName();
                    if (name.startsWith("org/apache/flink/") && name.endsWith(".class")) {
                        declared(name.substring(0, name.length() - 6).replace('/', '.'), lines);
                    }
                }
            }
        }
        lines.forEach(System.out::println);
    }

    private static void declared(String name, TreeSet<String> lines) throws Exception {
        Method type = ConfigOption.class.getDeclaredMethod("getClazz");
        type.setAccessible(true);
        try {
            for (Field field : Class.forName(name, false, FlinkOptions.class.getClassLoader()).getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) || field.getType() != ConfigOption.class) continue;
                field.setAccessible(true);
                ConfigOption<?> option = (ConfigOption<?>) field.get(null);
                StringBuilder line = new StringBuilder(name + "\t" + option.key() + "\t");
                line.append(((Class<?>) type.invoke(option)).getSimpleName());
                for (FallbackKey key : option.fallbackKeys()) if (key.isDeprecated()) line.append("\t").append(key.getKey());
                lines.add(line.toString());
            }
        } catch (LinkageError error) {
            // A class that needs what is not in these jars: it declares nothing of a cluster.
        }
    }
}
