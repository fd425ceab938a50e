/**
 * The one place that says what the engine is to create. Nothing of a job gets into it but the fields of a
 * plan, one by one; whatever makes a container strong against the machine that it runs on stands here as a
 * constant.
 *
 * - `Tmpfs` names /run and /var/tmp too: Podman adds writable ones without a bound to a read-only root.
 * - `nofile` and `nproc` are always said: Podman fails without them where it may not raise its own limits.
 *   `nproc` counts all processes of a user on the machine, so it is high, and PidsLimit does the work.
 * - `fsize` bounds each file: that of a result too, which is the only thing that is not in memory.
 * - `LogConfig none`: the engine keeps no output; what is attached is all there is.
 */
import { containerInputPath, containerResultPath } from '@belfry/contract'
import { dirname } from 'node:path'
import type { ContainerPlan } from '../../../ports/container-backend.ts'

const mib = 1024 * 1024

export const labels = {
  installation: 'dev.belfry.installation',
  run: 'dev.belfry.run',
  attempt: 'dev.belfry.attempt',
  epoch: 'dev.belfry.epoch',
  session: 'dev.belfry.session',
  tenant: 'dev.belfry.tenant',
} as const

export const exchangePath = dirname(containerInputPath)

export interface CreateSettings {
  readonly installation: string
  /** Undefined: that of the engine. */
  readonly runtime: string | undefined
  readonly pidsOfUser: number
}

export const labelsOf = (plan: ContainerPlan, { installation }: Pick<CreateSettings, 'installation'>) => ({
  [labels.installation]: installation,
  [labels.run]: plan.runId,
  [labels.attempt]: String(plan.attempt),
  [labels.epoch]: String(plan.leaseEpoch),
  [labels.session]: plan.sessionId,
  [labels.tenant]: plan.tenantId,
})

/** Each lease has its own: an attempt that comes late touches nothing of the one after it. */
export const nameOf = ({ runId, leaseEpoch }: Pick<ContainerPlan, 'runId' | 'leaseEpoch'>): string =>
  `belfry-${runId}-${leaseEpoch}`

/** Of the process that holds the network of a lease. */
export const holderName = (run: Pick<ContainerPlan, 'runId' | 'leaseEpoch'>): string =>
  `${nameOf(run)}-network`

/** Files are exchanged by a volume of this name. */
export const volumeOf = (plan: ContainerPlan): string | undefined =>
  plan.inputFile === undefined && plan.resultFileBytes === undefined ? undefined : nameOf(plan)

/** `imageVolumes`: paths for which the image wants volumes, which would be on disk and without a bound. */
export function createCall(
  plan: ContainerPlan,
  settings: CreateSettings,
  network: string,
  imageVolumes: readonly string[],
) {
  const volume = volumeOf(plan)
  return {
    Image: plan.image,
    ...(plan.entrypoint === undefined ? {} : { Entrypoint: plan.entrypoint }),
    ...(plan.command === undefined ? {} : { Cmd: plan.command }),
    ...(plan.workingDir === undefined ? {} : { WorkingDir: plan.workingDir }),
    Env: [...plan.env, ...exchangeEnv(plan)].map(([name, value]) => `${name}=${value}`),
    User: `${plan.uid}:${plan.gid}`,
    Labels: labelsOf(plan, settings),
    Tty: false,
    OpenStdin: plan.stdin !== undefined,
    StdinOnce: plan.stdin !== undefined,
    AttachStdin: plan.stdin !== undefined,
    AttachStdout: true,
    AttachStderr: true,
    StopSignal: 'SIGTERM',
    // Docker's own check would run a program of the image beside the job
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      ...confinement(settings),
      NetworkMode: network,
      Memory: plan.limits.memoryMb * mib,
      MemorySwap: plan.limits.memoryMb * mib,
      NanoCpus: plan.limits.cpuMillis * 1_000_000,
      PidsLimit: plan.limits.pids,
      Ulimits: ulimits(plan, settings),
      Tmpfs: {
        ...Object.fromEntries(imageVolumes.map((path) => [path, options('1m', '1777')])),
        ...tmpfs(plan),
      },
      Mounts:
        volume === undefined
          ? []
          : [{ Type: 'volume', Source: volume, Target: exchangePath, VolumeOptions: { NoCopy: true } }],
    },
  }
}

/** The same for all. */
function confinement({ runtime }: CreateSettings) {
  return {
    ...(runtime === undefined ? {} : { Runtime: runtime }),
    AutoRemove: false,
    CapDrop: ['ALL'],
    Init: false,
    IpcMode: 'private',
    LogConfig: { Type: 'none' },
    Privileged: false,
    ReadonlyRootfs: true,
    RestartPolicy: { Name: 'no' },
    SecurityOpt: ['no-new-privileges'],
    ShmSize: mib,
  }
}

function exchangeEnv(plan: ContainerPlan): (readonly [string, string])[] {
  return [
    ...(plan.inputFile === undefined ? [] : [['BELFRY_INPUT_FILE', containerInputPath] as const]),
    ...(plan.resultFileBytes === undefined ? [] : [['BELFRY_RESULT_FILE', containerResultPath] as const]),
  ]
}

function ulimits({ limits, tmpfs: paths }: ContainerPlan, { pidsOfUser }: CreateSettings) {
  // a little more than the largest tmpfs, so that one that is full says so itself
  const largest = Math.max(1, ...paths.map(([, sizeMb]) => sizeMb + 1)) * mib
  const limit = (Name: string, value: number) => ({ Name, Soft: value, Hard: value })
  return [
    limit('core', 0),
    limit('fsize', largest),
    limit('nofile', limits.openFiles),
    limit('nproc', pidsOfUser),
  ]
}

const options = (size: string, mode: string): string => `rw,noexec,nosuid,nodev,size=${size},mode=${mode}`

function tmpfs({ tmpfs: paths }: ContainerPlan): Record<string, string> {
  return {
    '/run': options('64k', '0755'),
    '/var/tmp': options('64k', '0755'),
    '/tmp': options('64k', '1777'),
    ...Object.fromEntries(paths.map(([path, sizeMb]) => [path, options(`${sizeMb}m`, '1777')])),
  }
}

/** Holds the network of a run: a process that does nothing, in an image of our own (holder-image.ts). */
export function holderCall(plan: ContainerPlan, settings: CreateSettings, image: string) {
  return {
    Image: image,
    User: '65534:65534',
    Labels: labelsOf(plan, settings),
    Env: [],
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      ...confinement(settings),
      NetworkMode: 'none',
      Memory: 16 * mib,
      MemorySwap: 16 * mib,
      NanoCpus: 50_000_000,
      // a runtime begins with some threads of its own
      PidsLimit: 8,
      Ulimits: ulimits({ ...plan, tmpfs: [], limits: { ...plan.limits, openFiles: 64 } }, settings),
      Tmpfs: {
        '/run': options('64k', '0755'),
        '/var/tmp': options('64k', '0755'),
        '/tmp': options('64k', '1777'),
      },
    },
  }
}
