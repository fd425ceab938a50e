/**
 * The one place that says what Kubernetes is to create: for each attempt a Secret, with its variables and
 * its input, and a Job of one pod. Nothing of a job gets into them but the fields of a plan, one by one;
 * they meet the level "restricted" of the Pod Security Standards.
 *
 * - Values stand in the Secret alone: who may read Jobs and pods reads none of them.
 * - The result is the termination message of the container, written to the file that it is told of:
 *   Kubernetes keeps 4,096 bytes of it.
 * - Bounds of processes and open files are the node's (`podPidsLimit` of the kubelet); Kubernetes has none
 *   for a pod.
 * - What the network may reach is the word of a NetworkPolicy that selects the label of the class of egress.
 */
import { containerInputPath, containerResultPath } from '@belfry/contract'
import type { V1Job, V1Secret } from '@kubernetes/client-node'
import { basename } from 'node:path'
import type { ContainerPlan } from '../../../ports/container-backend.ts'

export const labels = {
  installation: 'belfry.dev/installation',
  run: 'belfry.dev/run',
  epoch: 'belfry.dev/epoch',
  session: 'belfry.dev/session',
  tenant: 'belfry.dev/tenant',
  egress: 'belfry.dev/egress',
} as const

/** Of the container in its pod. */
export const containerName = 'job'
/** A termination message that is as long may have been cut. */
export const longestResult = 4_096
/** What is left of an attempt whose worker died, and whose reaper died with it. */
const keptSeconds = 600

export interface ManifestSettings {
  readonly installation: string
  /** Undefined: that of the cluster. */
  readonly runtimeClass: string | undefined
}

export interface Manifests {
  readonly name: string
  readonly secret: V1Secret
  readonly job: V1Job
}

/** One run never has two of a name: each lease has its own. */
export const nameOf = ({ runId, leaseEpoch }: Pick<ContainerPlan, 'runId' | 'leaseEpoch'>): string =>
  `belfry-${runId}-${leaseEpoch}`

export const policyName = (egressName: string): string => `belfry-${egressName.toLowerCase()}`

export function manifestsOf(plan: ContainerPlan, settings: ManifestSettings): Manifests {
  const name = nameOf(plan)
  const metadata = { name, labels: labelsOf(plan, settings) }
  return {
    name,
    secret: { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', stringData: secretTexts(plan) },
    job: {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata,
      spec: {
        backoffLimit: 0,
        completions: 1,
        parallelism: 1,
        ttlSecondsAfterFinished: keptSeconds,
        template: { metadata: { labels: metadata.labels }, spec: podSpec(plan, settings, name) },
      },
    },
  }
}

function labelsOf(plan: ContainerPlan, { installation }: ManifestSettings): Record<string, string> {
  return {
    [labels.installation]: installation,
    [labels.run]: plan.runId,
    [labels.epoch]: String(plan.leaseEpoch),
    [labels.session]: plan.sessionId,
    [labels.tenant]: plan.tenantId,
    [labels.egress]: plan.egressName,
  }
}

const inputKey = basename(containerInputPath)

/** Variables by their number: a name of a variable need not be one of a key. */
function secretTexts({ env, inputFile }: ContainerPlan): Record<string, string> {
  return {
    ...Object.fromEntries(env.map(([, value], index) => [`env-${index}`, value])),
    ...(inputFile === undefined ? {} : { [inputKey]: inputFile }),
  }
}

function podSpec(plan: ContainerPlan, { runtimeClass }: ManifestSettings, secretName: string) {
  return {
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    hostNetwork: false,
    hostPID: false,
    hostIPC: false,
    terminationGracePeriodSeconds: graceSeconds(plan),
    ...(runtimeClass === undefined ? {} : { runtimeClassName: runtimeClass }),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: plan.uid,
      runAsGroup: plan.gid,
      fsGroup: plan.gid,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [container(plan, secretName)],
    volumes: volumes(plan, secretName),
  }
}

export const graceSeconds = ({ stopGraceMs }: Pick<ContainerPlan, 'stopGraceMs'>): number =>
  Math.ceil(stopGraceMs / 1_000)

function container(plan: ContainerPlan, secretName: string) {
  const { entrypoint, command, workingDir, resultFileBytes } = plan
  return {
    name: containerName,
    image: plan.image,
    imagePullPolicy: plan.pull ? 'IfNotPresent' : 'Never',
    ...(entrypoint === undefined ? {} : { command: entrypoint.map(literal) }),
    ...(command === undefined ? {} : { args: command.map(literal) }),
    ...(workingDir === undefined ? {} : { workingDir }),
    env: variables(plan, secretName),
    resources: resources(plan),
    ...(resultFileBytes === undefined ? {} : { terminationMessagePath: containerResultPath }),
    terminationMessagePolicy: 'File',
    securityContext: {
      allowPrivilegeEscalation: false,
      privileged: false,
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: mounts(plan),
  }
}

/** Kubernetes reads `$(NAME)` in arguments as a variable; written twice, the sign stands for itself. */
const literal = (text: string): string => text.replaceAll('$(', '$$$$(')

function variables({ env, inputFile, resultFileBytes }: ContainerPlan, secretName: string) {
  return [
    ...env.map(([name], index) => ({
      name,
      valueFrom: { secretKeyRef: { name: secretName, key: `env-${index}` } },
    })),
    ...(inputFile === undefined ? [] : [{ name: 'BELFRY_INPUT_FILE', value: containerInputPath }]),
    ...(resultFileBytes === undefined ? [] : [{ name: 'BELFRY_RESULT_FILE', value: containerResultPath }]),
  ]
}

function resources({ limits, tmpfs }: ContainerPlan) {
  const written = tmpfs.reduce((sum, [, sizeMb]) => sum + sizeMb, 0)
  const bound = {
    cpu: `${limits.cpuMillis}m`,
    memory: `${limits.memoryMb}Mi`,
    // nothing is written to disk but the log, which the kubelet turns over by itself
    'ephemeral-storage': `${Math.max(64, written)}Mi`,
  }
  return { limits: bound, requests: bound }
}

function volumes({ tmpfs, inputFile }: ContainerPlan, secretName: string) {
  return [
    ...tmpfs.map(([, sizeMb], index) => ({
      name: `tmp-${index}`,
      emptyDir: { medium: 'Memory', sizeLimit: `${sizeMb}Mi` },
    })),
    ...(inputFile === undefined
      ? []
      : [
          {
            name: 'input',
            secret: { secretName, defaultMode: 0o444, items: [{ key: inputKey, path: inputKey }] },
          },
        ]),
  ]
}

function mounts({ tmpfs, inputFile }: ContainerPlan) {
  return [
    ...tmpfs.map(([mountPath], index) => ({ name: `tmp-${index}`, mountPath })),
    ...(inputFile === undefined
      ? []
      : // the file alone: the result has to be written beside it
        [{ name: 'input', mountPath: containerInputPath, subPath: inputKey, readOnly: true }]),
  ]
}
