/**
 * How every client of Kafka here is made: brokers, login, TLS and limits. The library is loaded only where it
 * is used.
 *
 * A broker that dies while it lets a client in has the library report that on the connection once more, after
 * it took its own listener off; without any, that would end the process. So each connection gets one here.
 */
import { subscribe } from 'node:diagnostics_channel'
import { EventEmitter } from 'node:events'
import { isIP } from 'node:net'
import type { BaseOptions } from '@platformatic/kafka'

export interface KafkaSettings {
  /** host:port */
  readonly brokers: readonly string[]
  readonly prefix: string
  readonly login?:
    | {
        readonly username: string
        readonly password: string
        readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512'
      }
    | undefined
  readonly tls?:
    | {
        /** PEM, all three. */
        readonly ca?: string | undefined
        readonly certificate?: string | undefined
        readonly key?: string | undefined
      }
    | undefined
  /** Of topics that are made. */
  readonly partitions: number
  /** Undefined: as the brokers say. */
  readonly replication?: number | undefined
}

/** Within which a broker answers, or counts as silent. */
export const requestTimeoutMs = 3_000
const connectTimeoutMs = 2_000
const retryMs = 100

const hostOf = (broker: string): string => broker.slice(0, broker.lastIndexOf(':')).replace(/^\[|\]$/g, '')

/** Marks what is made for Belfry: in a process that embeds it, others may use the library too. */
const ours = Symbol('belfry')

subscribe('plt:kafka:instances', (made) => {
  const { type, instance } = made as { readonly type: string; readonly instance: { context?: unknown } }
  if (type !== 'connection' || instance.context !== ours || !(instance instanceof EventEmitter)) return
  // whoever waits for it is told otherwise
  instance.on('error', () => undefined)
})

type Mechanism = NonNullable<BaseOptions['sasl']>['mechanism']

export function clientOptions(settings: KafkaSettings, clientId: string): BaseOptions {
  const { login, tls } = settings
  return {
    clientId,
    context: ours,
    bootstrapBrokers: [...settings.brokers],
    connectTimeout: connectTimeoutMs,
    requestTimeout: requestTimeoutMs,
    timeout: requestTimeoutMs - 500,
    retries: 3,
    retryDelay: retryMs,
    autocreateTopics: false,
    ...(login === undefined
      ? {}
      : {
          sasl: {
            mechanism: login.mechanism.toUpperCase() as Mechanism,
            username: login.username,
            password: login.password,
          },
        }),
    ...(tls === undefined
      ? {}
      : {
          tls: {
            ...(tls.ca === undefined ? {} : { ca: tls.ca }),
            ...(tls.certificate === undefined ? {} : { cert: tls.certificate }),
            ...(tls.key === undefined ? {} : { key: tls.key }),
          },
          tlsServerName: !settings.brokers.some((broker) => isIP(hostOf(broker)) > 0),
        }),
  }
}
