package copier

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The program. MUSTER names it where it is not on the PATH.
var muster = cmp.Or(os.Getenv("MUSTER"), "muster")

func TestTheCopyFollowsWhateverStrikes(t *testing.T) {
	kubeconfig := start(t)
	go Run(t.Context(), client(t, kubeconfig, "copier"))
	api := client(t, kubeconfig, "test").CoreV1().ConfigMaps(namespace)
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "page", Labels: map[string]string{"copy": "yes"}}}
	if _, err := api.Create(t.Context(), source, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	limit, only := int64(60), "metadata.name=page-copy"
	for round := range 4 {
		data := fmt.Sprintf(`{"data":{"round":"%d"}}`, round)
		if _, err := api.Patch(t.Context(), "page", types.MergePatchType, []byte(data), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		copies, err := api.Watch(t.Context(), metav1.ListOptions{FieldSelector: only, TimeoutSeconds: &limit})
		if err != nil {
			t.Fatal(err)
		}
		follows := false
		for event := range copies.ResultChan() {
			copied, ok := event.Object.(*corev1.ConfigMap)
			if follows = ok && copied.Data["round"] == fmt.Sprint(round); follows {
				break
			}
		}
		copies.Stop()
		if !follows {
			t.Fatalf("no copy of round %d within a minute", round)
		}
	}

	strikes, err := exec.Command(muster, "faults", "strikes", "--kubeconfig", kubeconfig).Output()
	if err != nil {
		t.Fatal(err)
	}
	struck := map[string]bool{}
	for line := range bytes.Lines(strikes) {
		var strike struct {
			Client, Verb string
			Fault        json.RawMessage
		}
		if err := json.Unmarshal(line, &strike); err != nil || strike.Client != "copier" {
			t.Fatalf("%s: %v", line, err)
		}
		// A fault is a name, or a name with what it did: {"lag":"1.2s"}.
		struck[strike.Verb+" "+strings.Split(string(strike.Fault), `"`)[1]] = true
	}
	for _, kind := range []string{"create answer-lost", "update refuse", "watch lag", "watch cut-at", "watch refuse"} {
		if !struck[kind] {
			t.Errorf("no %s: %v", kind, struck)
		}
	}
}

// start has a cluster with faults until the test ends.
func start(t *testing.T) (kubeconfig string) {
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	up := exec.Command(muster, "up", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig, "--output", "json",
		"--exit-with-parent", "--nodes", "0", "--faults", "../copier.yaml", "--seed", "1")
	said, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { up.Process.Kill(); up.Wait() })
	if ready, err := bufio.NewReader(said).ReadString('\n'); !strings.Contains(ready, `"event":"ready"`) {
		t.Fatal(ready, err)
	}
	return kubeconfig
}

func client(t *testing.T, kubeconfig, userAgent string) kubernetes.Interface {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = userAgent
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return api
}
