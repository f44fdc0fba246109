"""A user's own estimator, as it would stand in a package of theirs."""

from array_api_compat import array_namespace

from simlab.estimators import center, chain, register


@register("own:signed-power", "sgn(r_i - mean(r)) |r_i - mean(r)|^power")
def signed_power(power: float = 0.5):
    """Signed power: the deviation from the mean of the group, raised to a power."""

    def raised(advantages, rollouts):
        xp = array_namespace(advantages)
        return xp.sign(advantages) * xp.abs(advantages) ** power

    return chain(center("mean"), raised)
