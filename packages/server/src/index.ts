/**
 * The edge of `@belfry/server`: what the command line and embedders start. Everything else is inside and may
 * change at any time.
 */
export { examineMachine } from './compose/doctor.ts'
export type { Diagnosis, DiagnosisStatus } from './compose/diagnosis.ts'
export type { DoctorOptions } from './compose/doctor.ts'
export { startEmbedded } from './compose/embedded.ts'
export type { EmbeddedBelfry, EmbeddedOptions } from './compose/embedded.ts'
export { openSecurityJudge } from './compose/security-check/check-cases.ts'
export type { Judged, SecurityCase, SecurityJudge } from './compose/security-check/check-cases.ts'
export { loadConfig } from './config/load.ts'
export type { ConfigSource, LoadedConfig } from './config/load.ts'
export { secretSettings } from './config/schema.ts'
export type { Config } from './config/schema.ts'
export { runDev, runServer, startBelfry } from './main.ts'
export type { Ready, RunDevOptions, RunServerOptions } from './main.ts'
