/**
 * The types of every request and answer, derived from the route table of the contract: a route added there
 * is typed here without a change. Schemas are read by their shape (`_zod`), so this package needs no schema
 * library of its own.
 */
import type { RouteName, routes } from '@belfry/contract'

type Routes = typeof routes
type Output<S> = S extends { readonly _zod: { readonly output: infer O } } ? O : never
type Input<S> = S extends { readonly _zod: { readonly input: infer I } } ? I : never

/** Body that a route takes; `undefined` where it takes none. */
export type BodyOf<N extends RouteName> = Routes[N] extends { readonly body: infer S } ? Input<S> : undefined

/** Query of a route, each part optional: lists are sent separated by commas, `undefined` is left out. */
export type QueryOf<N extends RouteName> = Routes[N] extends { readonly query: infer S }
  ? { readonly [K in keyof Output<S>]?: Output<S>[K] | undefined }
  : { readonly [name: string]: undefined }

/** What a route answers; `undefined` for 204. */
export type AnswerOf<N extends RouteName> = Routes[N] extends { readonly response: infer S }
  ? Output<S>
  : undefined

/** Routes that answer a page of items. */
export type ListRoute = {
  [N in RouteName]: AnswerOf<N> extends { items: unknown[]; nextCursor: string | null } ? N : never
}[RouteName]

/** One item of a list route. */
export type ItemOf<N extends ListRoute> = AnswerOf<N> extends { items: (infer I)[] } ? I : never

/** What every call may carry besides its own parameters. */
export type CallOptions = {
  /** Same key and same request: the first answer again. Creates get a random one by themselves. */
  readonly idempotencyKey?: string | undefined
  /** ETag that the thing must still have; otherwise `precondition_failed`. */
  readonly ifMatch?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** Options of a change: `dryRun` checks everything and stores nothing. */
export type ChangeOptions = CallOptions & { readonly dryRun?: boolean | undefined }

export type RequestArguments<N extends RouteName> = CallOptions & {
  readonly params?: Routes[N] extends { readonly params: infer S } ? Output<S> : undefined
  readonly query?: QueryOf<N> | undefined
  readonly body?: BodyOf<N> | undefined
}
