import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;

/** A Deployment comes up. */
class DeploymentTest {
    private static final String PATH = "/apis/apps/v1/namespaces/default/deployments";

    private static String web(int replicas) {
        return """
            {"metadata": {"name": "web"}, "spec": {"replicas": %d, "selector": {"matchLabels": {"app": "web"}},
             "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}}
            """.formatted(replicas);
    }

    @Test
    void aDeploymentComesUp() throws Exception {
        Muster cluster = Muster.get();
        assertTrue(cluster.send("POST", PATH, web(3)).startsWith("201 "));
        Assertions.assertTimeoutPreemptively(Duration.ofMinutes(1), () -> {
            while (!cluster.send("GET", PATH + "/web", "").contains("\"availableReplicas\":3")) {
                Thread.sleep(20);
            }
        });
    }

    @Test
    void whatIsNotValidIsRefused() throws Exception {
        assertTrue(Muster.get().send("POST", PATH, web(-1)).startsWith("422 "));
    }
}
