/**
 * Where containers run: an engine on this machine (adapters/handlers/container), or whatever else takes the
 * same plan. The plan is all that a back end gets to know of a job: everything in it is decided, capped and
 * filled in, and there is no way to say more.
 *
 *   handler   schema, policy, secrets ─► plan                  verdict ◄─ end
 *   back end                              plan ─► container ─► end
 */
import type { TunnelRules } from '../domain/container/egress-class.ts'

export interface ContainerPlan {
  readonly runId: string
  readonly tenantId: string
  readonly attempt: number
  /** With the run it says who may have this container: it goes when the lease has gone to somebody else. */
  readonly leaseEpoch: number
  readonly sessionId: string
  readonly image: string
  /** May it be fetched from its registry where it is not there. */
  readonly pull: boolean
  /** Undefined: that of the image. */
  readonly entrypoint: readonly string[] | undefined
  readonly command: readonly string[] | undefined
  readonly env: readonly (readonly [name: string, value: string])[]
  readonly uid: number
  readonly gid: number
  readonly workingDir: string | undefined
  /** Paths and MiB. */
  readonly tmpfs: readonly (readonly [path: string, sizeMb: number])[]
  readonly limits: {
    readonly memoryMb: number
    readonly cpuMillis: number
    readonly pids: number
    readonly openFiles: number
  }
  /** The class of egress, as the job names it. */
  readonly egressName: string
  /** Undefined: no network at all. */
  readonly egress: TunnelRules | undefined
  readonly stdin: string | undefined
  readonly inputFile: string | undefined
  /** Whether it may write a result file; at most so many bytes are read. */
  readonly resultFileBytes: number | undefined
  readonly stopGraceMs: number
}

export type ContainerStream = 'stdout' | 'stderr'

export interface ContainerSink {
  /** Bytes as they come, in order for each stream. */
  output(stream: ContainerStream, bytes: Uint8Array): void
  /** What Belfry has to say of it, for its log. */
  note(message: string): void
  /** A connection that it asked for and did not get. */
  denied(place: string, why: string): void
}

export type ResultFile =
  | { readonly kind: 'file'; readonly bytes: Uint8Array }
  | { readonly kind: 'too_large' | 'no_file' }

export type ContainerEnd =
  | {
      readonly kind: 'exited'
      readonly exitCode: number
      readonly outOfMemory: boolean
      /** Belfry stopped it, because the signal fired. */
      readonly stopped: 'no' | 'terminated' | 'killed'
      /** Where one was asked for. */
      readonly result: ResultFile | undefined
    }
  /** It never ran, or nobody can say how it ended. */
  | {
      readonly kind: 'failed'
      readonly code: string
      readonly message: string
      readonly retryable: boolean
    }

export interface ContainerBackend {
  /** Begins to look for containers that nobody holds any more. */
  start(): void
  /**
   * Runs one to its end; never rejects. When `signal` fires it is told to stop, and killed after its grace;
   * with the reason `lease_lost` it is killed at once. When this resolves, nothing of it is left, or what is
   * left is known to be removed later.
   */
  run(plan: ContainerPlan, sink: ContainerSink, signal: AbortSignal): Promise<ContainerEnd>
  /** Kills what still runs. */
  close(): Promise<void>
}
