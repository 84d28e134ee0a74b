import java.io.BufferedReader;
import java.io.IOException;
import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * A cluster for JUnit: one for all tests of a run, ended with it. {@code MUSTER} names the program where it is not on the
 * PATH. With a Kubernetes client such as fabric8's, {@link #kubeconfig()} is all it takes.
 */
final class Muster {
    private static Muster only;

    private final Path kubeconfig;
    private final String ready;

    /** The cluster of this run, which the first test starts. */
    static synchronized Muster get() throws IOException {
        if (only == null) {
            only = new Muster();
        }
        return only;
    }

    private Muster() throws IOException {
        kubeconfig = Files.createTempDirectory("muster").resolve("kubeconfig");
        String program = Objects.requireNonNullElse(System.getenv("MUSTER"), "muster");
        // It ends with this JVM, however that ends.
        Process process = new ProcessBuilder(program, "up", "--output", "json", "--exit-with-parent",
                "--listen", "127.0.0.1:0", "--pod-startup", "0s", "--kubeconfig", kubeconfig.toString())
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader lines = process.inputReader();
        ready = Objects.requireNonNull(lines.readLine(), "muster did not start");
        if (!"ready".equals(said("event"))) {
            throw new IOException(said("message"));
        }
        // What it says later is of no use here, and must not fill the pipe.
        Thread reader = new Thread(() -> lines.lines().forEach(line -> { }));
        reader.setDaemon(true);
        reader.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            process.destroy();
            try {
                process.waitFor(10, TimeUnit.SECONDS);
                Files.deleteIfExists(kubeconfig);
                Files.deleteIfExists(kubeconfig.getParent());
            } catch (IOException | InterruptedException ended) {
                // The JVM is ending too.
            }
        }));
    }

    /** A file that every client of Kubernetes reads. */
    Path kubeconfig() {
        return kubeconfig;
    }

    /** A text of the line that it began with: {@code url}, {@code ca}, {@code token}. */
    String said(String key) {
        Matcher found = Pattern.compile("\"" + key + "\":\"((?:[^\"\\\\]|\\\\.)*)\"").matcher(ready);
        if (!found.find()) {
            throw new IllegalStateException("no " + key + " in " + ready);
        }
        return found.group(1).replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\");
    }

    /** Sends a request, and gives the status and the body of the answer, with a space between. */
    String send(String method, String path, String body) throws Exception {
        var ca = CertificateFactory.getInstance("X.509")
                .generateCertificate(new ByteArrayInputStream(said("ca").getBytes(StandardCharsets.US_ASCII)));
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        trusted.setCertificateEntry("muster", ca);
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(null, trust.getTrustManagers(), null);
        HttpRequest request = HttpRequest.newBuilder(URI.create(said("url") + path))
                .header("Authorization", "Bearer " + said("token")).header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        var answer = HttpClient.newBuilder().sslContext(tls).build().send(request, BodyHandlers.ofString());
        return answer.statusCode() + " " + answer.body();
    }
}
