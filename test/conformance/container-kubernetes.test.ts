// Containers as Jobs of Kubernetes, on a fake of its API (test/support/fake-kubernetes.ts): what is made,
// what comes of each end, cancels, an API server that is away, and what dead workers leave.
import type { V1PodSpec } from '@kubernetes/client-node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { manifestsOf } from '../../packages/server/src/adapters/handlers/kubernetes/job-manifest.ts'
import { openKubernetes } from '../../packages/server/src/adapters/handlers/kubernetes/kubernetes-api.ts'
import {
  createKubernetesBackend,
  type KubernetesBackend,
} from '../../packages/server/src/adapters/handlers/kubernetes/kubernetes-backend.ts'
import type {
  ContainerEnd,
  ContainerPlan,
  ContainerSink,
} from '../../packages/server/src/ports/container-backend.ts'
import type { HeldName } from '../../packages/server/src/ports/worker-store.ts'
import { type FakeKubernetes, fakeNamespace, startFakeKubernetes } from '../support/fake-kubernetes.ts'
import { realClock } from '../support/real-clock.ts'
import { newId } from '../support/running.ts'

let fake: FakeKubernetes
let backend: KubernetesBackend
let held: readonly HeldName[] = []
let output = ''
const notes: string[] = []
const faults: unknown[] = []

const open = (): KubernetesBackend =>
  createKubernetesBackend({
    clock: realClock,
    installation: 'here',
    runtimeClass: undefined,
    openApi: () => openKubernetes(fakeNamespace, fake.kubeconfig),
    stillHeld: async (_session, runs) =>
      runs.filter((run) =>
        held.some(({ runId, leaseEpoch }) => run.runId === runId && run.leaseEpoch === leaseEpoch),
      ),
    onRemoved: () => undefined,
    onFault: (error) => faults.push(error),
    lookMs: 20,
  })

beforeEach(async () => {
  fake = await startFakeKubernetes()
  fake.put('networkpolicies', policy('none'))
  backend = open()
  held = []
  output = ''
  notes.length = 0
  faults.length = 0
})
afterEach(async () => {
  await backend.close()
  await fake.close()
})

function policy(egress: string) {
  const podSelector = { matchLabels: { 'belfry.dev/egress': egress } }
  return { metadata: { name: `belfry-${egress}` }, spec: { podSelector, policyTypes: ['Egress'] } }
}

const sink: ContainerSink = {
  output: (_stream, bytes) => {
    output += Buffer.from(bytes).toString()
  },
  note: (message) => void notes.push(message),
  denied: () => undefined,
}

const planOf = (more: Partial<ContainerPlan> = {}): ContainerPlan => ({
  runId: newId(),
  tenantId: newId(),
  attempt: 1,
  leaseEpoch: 3,
  sessionId: newId(),
  image: 'registry.example.com/app@sha256:00',
  pull: true,
  entrypoint: undefined,
  command: ['echo', '$(TOKEN) $HOME'],
  env: [
    ['BELFRY_RUN_ID', 'r1'],
    ['TOKEN', 'very-secret-value'],
  ],
  uid: 65_534,
  gid: 65_534,
  workingDir: undefined,
  tmpfs: [['/tmp', 16]],
  limits: { memoryMb: 64, cpuMillis: 250, pids: 64, openFiles: 1_024 },
  egressName: 'none',
  egress: undefined,
  stdin: undefined,
  inputFile: '{"day":1}',
  resultFileBytes: 1_000_000,
  stopGraceMs: 2_500,
  ...more,
})

function begin(more: Partial<ContainerPlan> = {}) {
  const plan = planOf(more)
  const abort = new AbortController()
  return { plan, abort, end: backend.run(plan, sink, abort.signal) }
}

const left = () => [...fake.names('jobs'), ...fake.names('secrets')]

describe('what is made', () => {
  it('holds no value of a variable and no input, and is restricted', () => {
    const { job, secret } = manifestsOf(planOf(), { installation: 'here', runtimeClass: 'gvisor' })
    const text = JSON.stringify(job)
    expect(text).not.toContain('very-secret-value')
    expect(text).not.toContain('"day"')
    expect(secret.stringData).toEqual({
      'env-0': 'r1',
      'env-1': 'very-secret-value',
      'input.json': '{"day":1}',
    })
    const spec = job.spec?.template.spec as V1PodSpec
    const [container] = spec.containers
    expect(spec).toMatchObject({
      automountServiceAccountToken: false,
      hostNetwork: false,
      restartPolicy: 'Never',
      runtimeClassName: 'gvisor',
      securityContext: { runAsNonRoot: true, runAsUser: 65_534, seccompProfile: { type: 'RuntimeDefault' } },
      terminationGracePeriodSeconds: 3,
    })
    expect(container).toMatchObject({
      args: ['echo', '$$(TOKEN) $HOME'],
      securityContext: {
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        readOnlyRootFilesystem: true,
      },
      terminationMessagePath: '/belfry/result.json',
    })
    expect(container?.resources?.limits).toEqual(container?.resources?.requests)
    expect(JSON.stringify(spec)).not.toMatch(/hostPath|privileged":true|hostPort|SYS_/)
  })
})

describe('an attempt', () => {
  it('succeeds with its log and its result, and leaves nothing', async () => {
    const { plan, end } = begin()
    const pod = await fake.pod()
    const [name = ''] = fake.names('jobs')
    expect(name).toBe(`belfry-${plan.runId}-3`)
    await expect
      .poll(() => fake.find('secrets', name)?.metadata?.ownerReferences?.[0]?.uid)
      .toBe(fake.find('jobs', name)?.metadata?.uid)
    pod.says('before\n')
    pod.is({ running: {} })
    await expect.poll(() => output).toBe('before\n')
    pod.says('after\n')
    pod.ends(0, { message: '{"rows":7}' })
    const done = await end
    expect(done).toMatchObject({ kind: 'exited', exitCode: 0, stopped: 'no' })
    expect(Buffer.from(resultOf(done)).toString()).toBe('{"rows":7}')
    expect(output).toBe('before\nafter\n')
    expect(left()).toEqual([])
  })

  it('says how it ended: exit code, memory, a result that is cut', async () => {
    const one = begin()
    ;(await fake.pod()).ends(7)
    expect(await one.end).toMatchObject({ exitCode: 7, outOfMemory: false })
    const two = begin()
    ;(await fake.pod()).ends(137, { reason: 'OOMKilled' })
    expect(await two.end).toMatchObject({ exitCode: 137, outOfMemory: true })
    const three = begin()
    ;(await fake.pod()).ends(0, { message: 'x'.repeat(4_096) })
    expect(await three.end).toMatchObject({ result: { kind: 'too_large' } })
  })

  it.each([
    ['ErrImageNeverPull', 'container_image_missing'],
    ['ImagePullBackOff', 'container_image_missing'],
    ['CreateContainerError', 'container_not_started'],
  ])('whose pod waits for good (%s) fails at once', async (reason, code) => {
    const { end } = begin()
    ;(await fake.pod()).is({ waiting: { reason, message: 'why' } })
    expect(await end).toMatchObject({ kind: 'failed', code, retryable: false })
    expect(left()).toEqual([])
  })

  it('whose pod is evicted or vanishes is tried again', async () => {
    const one = begin()
    ;(await fake.pod()).evicted()
    expect(await one.end).toMatchObject({ code: 'container_lost', retryable: true })
    const two = begin()
    const pod = await fake.pod()
    pod.is({ running: {} })
    pod.says('x')
    await expect.poll(() => output).toContain('x')
    pod.vanishes()
    expect(await two.end).toMatchObject({ code: 'container_lost', retryable: true })
  })

  it.each([
    { reason: 'cancel', grace: 3, stopped: 'terminated' },
    { reason: 'lease_lost', grace: 0, stopped: 'killed' },
  ])('is stopped on $reason with a grace of $grace s', async ({ reason, grace, stopped }) => {
    const { abort, end } = begin()
    const pod = await fake.pod()
    pod.is({ running: {} })
    pod.says('x')
    await expect.poll(() => output).toBe('x')
    abort.abort(reason)
    await expect.poll(() => pod.graceSeconds()).toBe(grace)
    pod.ends(143)
    expect(await end).toMatchObject({ kind: 'exited', exitCode: 143, stopped })
    expect(left()).toEqual([])
  })

  it('goes on when the API server comes back', async () => {
    const { end } = begin()
    const pod = await fake.pod()
    fake.break(true)
    const asked = fake.refused()
    await expect.poll(() => fake.refused()).toBeGreaterThan(asked + 1)
    pod.ends(0)
    fake.break(false)
    expect(await end).toMatchObject({ kind: 'exited', exitCode: 0 })
  })

  it('without a policy of its network, or with standard input, does not run', async () => {
    expect(await begin({ egressName: 'internet' }).end).toMatchObject({ code: 'container_network_unguarded' })
    fake.put('networkpolicies', { ...policy('none'), metadata: { name: 'belfry-internet' } })
    expect(await begin({ egressName: 'internet' }).end, 'of another class').toMatchObject({
      code: 'container_network_unguarded',
    })
    expect(await begin({ stdin: '1' }).end).toMatchObject({ code: 'container_unsupported', retryable: false })
    expect(left()).toEqual([])
  })

  it('that cannot reach the API server is tried again', async () => {
    await fake.close()
    expect(await begin().end).toMatchObject({ kind: 'failed', retryable: true })
    fake = await startFakeKubernetes()
  })
})

it('what dead workers left is removed, what others hold is not', async () => {
  const dead = begin()
  const pod = await fake.pod()
  pod.is({ running: {} })
  const heir = open()
  held = [dead.plan]
  expect(await heir.sweep(), 'its session still holds it').toBe(0)
  held = []
  expect(await heir.sweep()).toBe(1)
  expect(left()).toEqual([])
  expect(await dead.end).toMatchObject({ code: 'container_lost' })
  expect(await backend.sweep()).toBe(0)
  await heir.close()
})

function resultOf(end: ContainerEnd): Uint8Array {
  if (end.kind !== 'exited' || end.result?.kind !== 'file')
    throw new Error(`no result: ${JSON.stringify(end)}`)
  return end.result.bytes
}
