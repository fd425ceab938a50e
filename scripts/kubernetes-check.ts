// `npm run kubernetes:check -- --apiserver PATH --etcd PATH`: runs the back end of Kubernetes against a real
// API server, with admission of pods and roles as in deploy/kubernetes. There is no node: the script makes
// the pods that the controller of Jobs would make, and says what a kubelet would. Prints what was shown;
// exits with 1 where something was refused.
//
// The tests have a fake in its place (test/support/fake-kubernetes.ts): no registry has the binary, and
// building it takes ten minutes. `go build k8s.io/kubernetes/cmd/kube-apiserver` makes it; Debian has
// etcd-server.
import { type ChildProcess, spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import * as k8s from '@kubernetes/client-node'
import { parseAllDocuments } from 'yaml'
import { openKubernetes } from '../packages/server/src/adapters/handlers/kubernetes/kubernetes-api.ts'
import {
  createKubernetesBackend,
  type KubernetesBackend,
} from '../packages/server/src/adapters/handlers/kubernetes/kubernetes-backend.ts'
import type { ContainerPlan } from '../packages/server/src/ports/container-backend.ts'
import { realClock } from '../test/support/real-clock.ts'
import { newId } from '../test/support/running.ts'

const { values } = parseArgs({ options: { apiserver: { type: 'string' }, etcd: { type: 'string' } } })
const namespace = 'belfry-jobs'
const ports = { etcd: 23_790, peer: 23_800, api: 26_443 }
const folder = mkdtempSync(join(tmpdir(), 'belfry-kubernetes-check-'))
const adminToken = 'only-for-this-check'
const server = `https://127.0.0.1:${ports.api}`

function start(program: string, flags: readonly string[]): ChildProcess {
  return spawn(program, flags, { stdio: ['ignore', 'ignore', 'ignore'], cwd: folder })
}

function configOf(token: string): k8s.KubeConfig {
  const config = new k8s.KubeConfig()
  config.loadFromOptions({
    clusters: [{ name: 'check', server, skipTLSVerify: true }],
    users: [{ name: 'who', token }],
    contexts: [{ name: 'check', cluster: 'check', user: 'who' }],
    currentContext: 'check',
  })
  return config
}

async function until<T>(what: string, ask: () => Promise<T | undefined>): Promise<T> {
  for (const deadlineMs = performance.now() + 60_000; performance.now() < deadlineMs; await wait(200)) {
    const answer = await ask().catch(() => undefined)
    if (answer !== undefined) return answer
  }
  throw new Error(`${what}: not within 60 s`)
}

function startServers(): ChildProcess[] {
  if (values.apiserver === undefined || values.etcd === undefined)
    throw new Error('Give --apiserver PATH and --etcd PATH.')
  writeFileSync(join(folder, 'tokens.csv'), `${adminToken},admin,admin,system:masters\n`)
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  writeFileSync(join(folder, 'sa.key'), privateKey.export({ type: 'pkcs8', format: 'pem' }))
  writeFileSync(join(folder, 'sa.pub'), publicKey.export({ type: 'spki', format: 'pem' }))
  const etcdUrl = `http://127.0.0.1:${ports.etcd}`
  const peerUrl = `http://127.0.0.1:${ports.peer}`
  const etcd = start(values.etcd, [
    `--data-dir=${join(folder, 'etcd')}`,
    `--listen-client-urls=${etcdUrl}`,
    `--advertise-client-urls=${etcdUrl}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--initial-cluster=default=${peerUrl}`,
    '--unsafe-no-fsync',
  ])
  const api = start(values.apiserver, [
    `--etcd-servers=${etcdUrl}`,
    `--secure-port=${ports.api}`,
    '--bind-address=127.0.0.1',
    `--cert-dir=${join(folder, 'certs')}`,
    '--service-cluster-ip-range=10.96.0.0/16',
    '--authorization-mode=RBAC',
    `--token-auth-file=${join(folder, 'tokens.csv')}`,
    '--service-account-issuer=https://check.belfry.test',
    `--service-account-signing-key-file=${join(folder, 'sa.key')}`,
    `--service-account-key-file=${join(folder, 'sa.pub')}`,
    '--disable-admission-plugins=ServiceAccount',
  ])
  return [etcd, api]
}

/** Applies the manifests of deploy/kubernetes as they stand there. */
async function applyManifests(admin: k8s.KubeConfig): Promise<void> {
  const objects = k8s.KubernetesObjectApi.makeApiClient(admin)
  for (const file of ['worker', 'network-policies']) {
    const path = new URL(`../deploy/kubernetes/${file}.yaml`, import.meta.url)
    for (const document of parseAllDocuments(readFileSync(path, 'utf8')))
      await objects.create(document.toJS() as k8s.KubernetesObject)
    process.stdout.write(`applied   deploy/kubernetes/${file}.yaml\n`)
  }
}

async function workerKubeconfig(admin: k8s.KubeConfig): Promise<string> {
  const core = admin.makeApiClient(k8s.CoreV1Api)
  const { status } = await core.createNamespacedServiceAccountToken({
    namespace,
    name: 'belfry-worker',
    body: { spec: { audiences: [], expirationSeconds: 3_600 } },
  })
  const path = join(folder, 'worker.json')
  writeFileSync(path, configOf(status?.token ?? '').exportConfig())
  return path
}

/** As the controller of Jobs does: the pod of the only Job. */
async function makePod(admin: k8s.KubeConfig): Promise<string> {
  const batch = admin.makeApiClient(k8s.BatchV1Api)
  const core = admin.makeApiClient(k8s.CoreV1Api)
  const job = await until('a Job', async () => (await batch.listNamespacedJob({ namespace })).items[0])
  const { template } = job.spec ?? {}
  const name = `${job.metadata?.name}-check`
  const labels = { ...template?.metadata?.labels, 'batch.kubernetes.io/job-name': job.metadata?.name ?? '' }
  if (template?.spec === undefined) throw new Error('the Job has no pod')
  await core.createNamespacedPod({ namespace, body: { metadata: { name, labels }, spec: template.spec } })
  return name
}

/** As a kubelet does. */
async function endPod(admin: k8s.KubeConfig, name: string, exitCode: number, message: string): Promise<void> {
  const core = admin.makeApiClient(k8s.CoreV1Api)
  const pod = await core.readNamespacedPod({ namespace, name })
  const at = new Date()
  const state = { terminated: { exitCode, message, reason: 'Completed', startedAt: at, finishedAt: at } }
  const container = { name: 'job', image: 'x', imageID: 'x', ready: false, restartCount: 0, state }
  pod.status = { phase: 'Succeeded', containerStatuses: [container] }
  await core.replaceNamespacedPodStatus({ namespace, name, body: pod })
}

const plan: ContainerPlan = {
  runId: newId(),
  tenantId: newId(),
  attempt: 1,
  leaseEpoch: 1,
  sessionId: newId(),
  image: 'registry.example.com/app:1',
  pull: true,
  entrypoint: ['/bin/app'],
  command: ['$(X)'],
  env: [['TOKEN', 'very-secret-value']],
  uid: 65_534,
  gid: 65_534,
  workingDir: '/tmp',
  tmpfs: [['/tmp', 16]],
  limits: { memoryMb: 64, cpuMillis: 250, pids: 64, openFiles: 1_024 },
  egressName: 'none',
  egress: undefined,
  stdin: undefined,
  inputFile: '{"day":1}',
  resultFileBytes: 1_000_000,
  stopGraceMs: 3_000,
}

async function main(): Promise<void> {
  const admin = configOf(adminToken)
  const { gitVersion } = await until('the API server', () => admin.makeApiClient(k8s.VersionApi).getCode())
  process.stdout.write(`server    Kubernetes ${gitVersion}\n`)
  await until('the namespace "default"', async () => {
    const found = await admin.makeApiClient(k8s.CoreV1Api).listNamespace()
    return found.items.some(({ metadata }) => metadata?.name === 'default') ? true : undefined
  })
  await applyManifests(admin)
  const kubeconfig = await workerKubeconfig(admin)
  const faults: unknown[] = []
  const backend: KubernetesBackend = createKubernetesBackend({
    clock: realClock,
    installation: 'check',
    runtimeClass: undefined,
    openApi: () => openKubernetes(namespace, kubeconfig),
    stillHeld: async () => [],
    onRemoved: () => undefined,
    onFault: (error) => faults.push(error),
    lookMs: 100,
  })
  const notes: string[] = []
  const sink = {
    output: () => undefined,
    note: (text: string) => void notes.push(text),
    denied: () => undefined,
  }
  const running = backend.run(plan, sink, new AbortController().signal)
  const pod = await Promise.race([
    makePod(admin),
    running.then((end) => {
      throw new Error(`ended before its pod: ${JSON.stringify(end)}`)
    }),
  ])
  process.stdout.write(`admitted  pod of the Job, under "restricted"\n`)
  await endPod(admin, pod, 0, '{"rows":7}')
  const end = await running
  if (end.kind !== 'exited' || end.exitCode !== 0 || end.result?.kind !== 'file')
    throw new Error(`the attempt ended otherwise: ${JSON.stringify(end)}`)
  process.stdout.write(`ended     exit code 0, result ${Buffer.from(end.result.bytes).toString()}\n`)
  const left = await admin.makeApiClient(k8s.CoreV1Api).listNamespacedSecret({ namespace })
  if (left.items.length > 0 || faults.length > 0)
    throw new Error(`left ${left.items.length} secrets, faults: ${faults.map(String).join('; ')}`)
  process.stdout.write('removed   Job and Secret\n')
  // a Job and its Secret of an attempt that nobody holds
  const api = await openKubernetes(namespace, kubeconfig)
  const { manifestsOf } = await import('../packages/server/src/adapters/handlers/kubernetes/job-manifest.ts')
  const settings = { installation: 'check', runtimeClass: undefined }
  await api.create(manifestsOf({ ...plan, runId: newId() }, settings))
  const removed = await backend.sweep()
  if (removed !== 1) throw new Error(`the sweep removed ${removed}, not 1`)
  process.stdout.write('swept     what nobody holds\n')
  await backend.close()
}

const servers = startServers()
try {
  await main()
} finally {
  for (const each of servers) each.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
}
