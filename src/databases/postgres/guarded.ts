import { MillraceError } from '../../core/errors.js'

/** A handler that goes on when its transaction is over must not write with that of another. */
export function guarded<T extends object>(client: T, isOver: () => boolean): T {
  return new Proxy(client, {
    get(target, property) {
      if (property === 'query' && isOver()) throw over()
      const value: unknown = Reflect.get(target, property)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

export function over(): MillraceError {
  return new MillraceError('STORE_REFUSED', 'the transaction is over; begin another one')
}
