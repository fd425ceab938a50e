/**
 * What the command line uses of `@belfry/server`, which it loads only for `dev`, `server`, `config`,
 * `doctor`, `security` and `demo`, so that every other command starts without the weight of an engine.
 */
import type * as Server from '@belfry/server'

export type ServerModule = Pick<
  typeof Server,
  | 'examineMachine'
  | 'loadConfig'
  | 'openSecurityJudge'
  | 'runDev'
  | 'runServer'
  | 'secretSettings'
  | 'startBelfry'
>

export const loadServer = (): Promise<ServerModule> => import('@belfry/server')
