// A Deployment comes up.
import * as k8s from "@kubernetes/client-node";
import * as muster from "./muster.js";

let cluster, config;

beforeAll(async () => {
  cluster = await muster.start();
  config = new k8s.KubeConfig();
  config.loadFromFile(cluster.kubeconfig);
});

afterAll(() => cluster?.stop());

const web = (replicas) => ({
  metadata: { name: "web" },
  spec: {
    replicas,
    selector: { matchLabels: { app: "web" } },
    template: {
      metadata: { labels: { app: "web" } },
      spec: { containers: [{ name: "web", image: "nginx" }] },
    },
  },
});

test("a deployment comes up", async () => {
  const apps = config.makeApiClient(k8s.AppsV1Api);
  await apps.createNamespacedDeployment({ namespace: "default", body: web(3) });
  const watch = new k8s.Watch(config);
  let request;
  const available = await new Promise((resolve, reject) => {
    const seen = (_, deployment) => deployment.status?.availableReplicas === 3 && resolve(deployment);
    request = watch.watch("/apis/apps/v1/namespaces/default/deployments", {}, seen, reject);
  });
  (await request).abort();
  expect(available.status.readyReplicas).toBe(3);
  const pods = await config.makeApiClient(k8s.CoreV1Api).listNamespacedPod({ namespace: "default" });
  expect(pods.items).toHaveLength(3);
}, 60_000);

test("what is not valid is refused", async () => {
  const apps = config.makeApiClient(k8s.AppsV1Api);
  await expect(apps.createNamespacedDeployment({ namespace: "default", body: web(-1) })).rejects.toMatchObject({
    code: 422,
  });
});
